// Package synth makes tables of clustered vectors on which recall means something.
//
// Independent random values in many dimensions have no neighbours to speak of: every row is about as far as any other, and
// an index that finds the wrong ones cannot be told from one that finds the right ones. Embeddings are different: they lie
// near a surface of few dimensions and in clusters. So each vector is drawn in a latent space of 16 dimensions around one
// of 200 centres, z = centre + 0.7 N(0, 1) with centres 1.5 N(0, 1), and mapped to the wanted dimension by
// x = tanh(z W) + 0.02 N(0, 1), with W = N(0, 1) / 4.
//
// The same Config always gives the same rows, whatever the batches they are read in.
package synth
