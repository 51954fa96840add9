# What only our own tests, examples and benchmarks use.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(CCACHE ccache)
    mark_as_advanced(CCACHE)
    if(CCACHE)
        set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
        set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
endif()
if(PROJECT_IS_TOP_LEVEL)
    # g++ never collects garbage below 4 GB, which no file of ours reaches: a sixth of the time less.
    add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=4000000>)
endif()

# How our programs are compiled. What contains kernels under test, and programs that compute much, link gradstep_kernels, everything
# else gradstep_fast. Neither forces functions into their callers, which would take a third of the time: packages and the tests of bits
# compile as users do. Without this option both are as the build type says.
option(GRADSTEP_FAST_COMPILE "Compile tests, examples and benchmarks fast: kernels by -O1, everything else without optimisation" OFF)
mark_as_advanced(GRADSTEP_FAST_COMPILE)
add_library(gradstep_kernels INTERFACE)
add_library(gradstep_fast INTERFACE)
if(GRADSTEP_FAST_COMPILE)
    target_compile_options(gradstep_kernels INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
    target_compile_options(gradstep_fast INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
    target_compile_definitions(gradstep_kernels INTERFACE GRADSTEP_NO_FORCE_INLINE=1)
    target_compile_definitions(gradstep_fast INTERFACE GRADSTEP_NO_FORCE_INLINE=1)
endif()

# Programs of a hundred megabytes, which lld links in a fifth of the time.
find_program(GRADSTEP_LLD ld.lld)
mark_as_advanced(GRADSTEP_LLD)
if(GRADSTEP_BUILD_TESTS AND GRADSTEP_LLD AND NOT CMAKE_CROSSCOMPILING)
    foreach(kind gradstep_kernels gradstep_fast)
        target_link_options(${kind} INTERFACE $<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld>)
    endforeach()
endif()

# In the build interface only: a user's compiler may warn about what ours does not know yet.
add_library(gradstep_warnings INTERFACE)
target_compile_options(gradstep_warnings INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:-Wall;-Wextra;-Wconversion;-Wshadow;-Werror>)

# What `mpirun` of Open MPI needs to start more processes than there are cores, as whoever runs it; another MPI does not read it.
set(GRADSTEP_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
                             OMPI_MCA_btl=self,vader,tcp)
