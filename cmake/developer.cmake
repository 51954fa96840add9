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
    # g++ with a larger heap tidies it less often: a quarter of a GB more, a tenth of the time less.
    add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=500000>)
endif()

set(GRADSTEP_PROGRAM_OPTIONS "" CACHE STRING "Compiler options of tests and examples, after all others")
set(GRADSTEP_SURROUNDINGS_OPTIONS "" CACHE STRING "Compiler options of what surrounds the kernels, after those: most tests, small examples")
set(GRADSTEP_SHORT_RUN_OPTIONS "" CACHE STRING "The same of tests with much to compile and little to run, and of benchmarks, which such builds do not run")
mark_as_advanced(GRADSTEP_PROGRAM_OPTIONS GRADSTEP_SURROUNDINGS_OPTIONS GRADSTEP_SHORT_RUN_OPTIONS)

# In the build interface only: a user's compiler may warn about what ours does not know yet.
add_library(gradstep_warnings INTERFACE)
target_compile_options(gradstep_warnings INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:-Wall;-Wextra;-Wconversion;-Wshadow;-Werror>)

# What `mpirun` of Open MPI needs to start more processes than there are cores, as whoever runs it; another MPI does not read it.
set(GRADSTEP_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
                             OMPI_MCA_btl=self,vader,tcp)
