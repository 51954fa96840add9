# gradstep::libtorch: gradstep::runtime, and torch's headers and libraries for the CPU. They are found by hand, in a wheel of PyPI too:
# the package file of a wheel for CUDA stops without a CUDA toolkit, which a program for the CPU does not need.
include("${CMAKE_CURRENT_LIST_DIR}/gradstep-runtime-dependencies.cmake")
set(gradstep_torch_hints "")
if(Torch_DIR) # TORCH/share/cmake/Torch
    list(APPEND gradstep_torch_hints "${Torch_DIR}/../../..")
endif()
foreach(prefix IN LISTS Torch_ROOT CMAKE_PREFIX_PATH) # TORCH, or torch.utils.cmake_prefix_path, which is TORCH/share/cmake
    list(APPEND gradstep_torch_hints "${prefix}" "${prefix}/../..")
endforeach()
find_path(GRADSTEP_TORCH_INCLUDE_DIR torch/csrc/api/include/torch/optim/adamw.h HINTS ${gradstep_torch_hints} PATH_SUFFIXES include)
foreach(library torch_cpu c10)
    find_library(GRADSTEP_${library}_LIBRARY ${library} HINTS "${GRADSTEP_TORCH_INCLUDE_DIR}/../lib" ${gradstep_torch_hints}
                 PATH_SUFFIXES lib)
    mark_as_advanced(GRADSTEP_${library}_LIBRARY)
endforeach()
mark_as_advanced(GRADSTEP_TORCH_INCLUDE_DIR)
if(NOT gradstep_missing)
    if(NOT GRADSTEP_TORCH_INCLUDE_DIR OR NOT GRADSTEP_torch_cpu_LIBRARY OR NOT GRADSTEP_c10_LIBRARY)
        set(gradstep_missing "torch was not found (give its folder: -DTorch_ROOT=.../site-packages/torch, or that of a libtorch archive)")
    elseif(NOT TARGET gradstep_system::torch)
        add_library(gradstep_system::torch INTERFACE IMPORTED)
        target_include_directories(gradstep_system::torch SYSTEM INTERFACE
                                   "${GRADSTEP_TORCH_INCLUDE_DIR}" "${GRADSTEP_TORCH_INCLUDE_DIR}/torch/csrc/api/include")
        target_link_libraries(gradstep_system::torch INTERFACE "${GRADSTEP_torch_cpu_LIBRARY}" "${GRADSTEP_c10_LIBRARY}")
        # A wheel for CUDA is linked to CUDA's libraries, which the linker does not find and the program needs when it starts.
        target_link_options(gradstep_system::torch INTERFACE LINKER:--allow-shlib-undefined)
    endif()
endif()
