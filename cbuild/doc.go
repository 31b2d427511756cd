// Command cbuild builds the native library that lanceknn loads and prepares the tools that its checks use.
//
//	go run ./cbuild                 build liblance_ffi into cbuild/dist/<goos>_<goarch>/ (does nothing when up to date)
//	go run ./cbuild static          build liblance_ffi.a there, for the build tag lance_ffi_static
//	go run ./cbuild header          regenerate lance-ffi/include/lance_ffi.h with cbindgen
//	go run ./cbuild header-check    fail if the committed header differs from what cbindgen generates
//	go run ./cbuild venv            create the private Python environment of the tests and print its interpreter
//	go run ./cbuild tools [NAME..]  install the pinned tools (golangci-lint, cargo-deny, cbindgen) and print their paths
//	go run ./cbuild cargo ARG..     run cargo in lance-ffi under the environment of the build
//
// Everything large lives outside the checkout, in ${LANCEKNN_CACHE:-$HOME/.cache/lanceknn}, so that another clone with
// the same Cargo.lock and the same flags compiles this project's own crate only. x86-64 code is built for x86-64-v3;
// LANCEKNN_TARGET_CPU names another CPU.
//
// cbuild imports nothing of the project and uses the standard library only, so that it runs before anything else does.
package main
