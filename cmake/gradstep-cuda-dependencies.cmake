# gradstep::cuda: the core and the CUDA toolkit's headers, for .cu files. nvcc brings its own Thrust (CCCL), and CMake
# links the runtime that the program's CUDA_RUNTIME_LIBRARY names; a second one here would be a conflict.
find_package(CUDAToolkit QUIET)
if(NOT TARGET CUDA::toolkit)
    set(gradstep_missing "the CUDA toolkit was not found (put nvcc on PATH, or give -DCUDAToolkit_ROOT=...)")
endif()
set(gradstep_cuda_links CUDA::toolkit)
