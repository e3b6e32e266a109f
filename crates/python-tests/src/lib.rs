//! Has the Python package built and its tests run by `cargo test`, where there is a Python. There
//! is nothing here but that test: the package is a workspace of its own (`python`), so that nobody
//! who builds Resurgam needs a Python.
