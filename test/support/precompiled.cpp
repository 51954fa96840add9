// Nothing: the target that precompiles the headers of the tests needs a file.
