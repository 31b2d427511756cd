// Command lanceknn searches Lance datasets for nearest neighbours, splitting each search by index segments.
//
//	lanceknn gen demo.lance --rows 200000 --dim 128 --fragments 8 --queries queries.npy
//	lanceknn index build demo.lance --column vec --type IVF_PQ --segments 8
//	lanceknn index list demo.lance
//	lanceknn search demo.lance --column vec --vectors queries.npy --k 10 --filter "category < 50" --columns id,title
//	lanceknn plan demo.lance --column vec --vectors queries.npy
//	lanceknn demo
//
// It exits with 0 on success, with 2 if the command line is wrong, and with 1 on any other failure, which it explains in
// one line on standard error. Results go to standard output and nothing else does.
package main
