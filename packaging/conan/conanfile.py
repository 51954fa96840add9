import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.1"


class GradstepConan(ConanFile):
    """Packages the working tree that it lies in: `conan create packaging/conan`."""

    name = "gradstep"
    description = "Optimizer update rules at the speed of memory"
    license = "Apache-2.0"
    topics = ("optimizer", "machine-learning", "sgd", "adam", "simd", "header-only")
    settings = "os", "arch", "compiler", "build_type"
    # Each adds the CMake target gradstep::<name>; with_thrust also thrust_cpp, and with_tbb beside it thrust_tbb. with_compiled compiles
    # what contains no kernel, of json too if it is chosen, into a static library: programs of many files compile faster.
    options = {f"with_{name}": [True, False] for name in
               ("xtensor", "eigen", "dlib", "armadillo", "ensmallen", "blas", "json", "openmp", "tbb", "mpi", "thrust", "cuda",
                "compiled")}
    default_options = {name: False for name in options}
    no_copy_source = True

    _module = os.path.join("packaging", "conan", "gradstep-system-dependencies.cmake")

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    def set_version(self):
        header = load(self, os.path.join(self._root, "include", "gradstep", "version.hpp"))
        self.version = ".".join(re.findall(r"#define GRADSTEP_VERSION_[A-Z]+ (\d+)", header))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", self._module):
            copy(self, pattern, src=self._root, dst=self.export_sources_folder)

    def configure(self):
        self.package_type = "static-library" if self.options.with_compiled else "header-library"

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        # xtensor first: it asks for one version of xsimd, which the range then follows.
        if self.options.with_xtensor:
            self.requires("xtensor/[>=0.24 <0.28]", transitive_headers=True)
        self.requires("xsimd/[>=8.1 <15]", transitive_headers=True)
        if self.options.with_eigen:
            self.requires("eigen/[>=3.4 <4]", transitive_headers=True)
        if self.options.with_json:
            self.requires("nlohmann_json/[>=3.11 <4]", transitive_headers=True)
        if self.options.with_tbb:
            self.requires("onetbb/[>=2021]", transitive_headers=True, transitive_libs=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        if not self.info.options.with_compiled:
            self.info.clear()
            return
        for name in ("xtensor", "eigen", "dlib", "armadillo", "ensmallen", "blas", "openmp", "tbb", "mpi", "thrust", "cuda"):
            self.info.options.rm_safe(f"with_{name}")

    def generate(self):
        toolchain = CMakeToolchain(self)
        # The headers are the same whatever the options are, as package_id says: most options are for package_info.
        for name in ("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_BENCHMARKS", "BUILD_TOOLS", "XTENSOR", "EIGEN", "DLIB",
                     "ARMADILLO", "ENSMALLEN", "BLAS", "JSON", "OPENMP", "TBB", "MPI", "THRUST", "CUDA"):
            toolchain.cache_variables[f"GRADSTEP_{name}"] = False
        if self.options.with_compiled:
            for name, option in (("BUILD_COMPILED", "compiled"), ("JSON", "json")):
                toolchain.cache_variables[f"GRADSTEP_{name}"] = bool(self.options.get_safe(f"with_{option}"))
        toolchain.cache_variables["GRADSTEP_INSTALL"] = True
        toolchain.cache_variables["GRADSTEP_REQUIRE_ALL"] = True
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        if self.options.with_compiled:
            cmake.build()

    def package(self):
        CMake(self).install()
        # CMakeDeps and PkgConfigDeps write these for the packages of Conan.
        for folder in ("cmake", "pkgconfig"):
            rmdir(self, os.path.join(self.package_folder, "lib", folder))
        rmdir(self, os.path.join(self.package_folder, "share"))
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        modules = os.path.join(self.package_folder, "lib", "cmake")
        copy(self, self._module, src=self.source_folder, dst=modules, keep_path=False)
        for name in ("dlib", "armadillo", "ensmallen", "blas", "openmp", "mpi", "thrust*", "cuda"):
            copy(self, f"cmake/gradstep-{name}-dependencies.cmake", src=self.source_folder, dst=modules, keep_path=False)

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "gradstep")
        self.cpp_info.set_property("cmake_config_version_compat", "SameMinorVersion")
        # Conan links every component to the target of the package, whose name would be gradstep::gradstep.
        self.cpp_info.set_property("cmake_target_name", "gradstep::gradstep-all")
        module = os.path.join("lib", "cmake", os.path.basename(self._module))
        self.cpp_info.set_property("cmake_build_modules", [module])

        self._component("core")
        self._component("gradstep", "xsimd::xsimd").set_property("pkg_config_name", "gradstep")
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.components["gradstep"].system_libs = ["pthread"]
        if self.options.with_compiled:
            compiled = self._component("compiled", "gradstep")
            compiled.libdirs = ["lib"]
            compiled.libs = ["gradstep_compiled"]
            compiled.defines = ["GRADSTEP_COMPILED=1"]
        if self.options.with_xtensor:
            self._component("xtensor", "xtensor::xtensor")
        if self.options.with_eigen:
            self._component("eigen", "eigen::eigen")
        for name in ("dlib", "armadillo", "ensmallen"):
            if self.options.get_safe(f"with_{name}"):
                self._component(name)
        if self.options.with_blas:
            self._component("blas")
        if self.options.with_json:
            self._component("json", "nlohmann_json::nlohmann_json")
        if self.options.with_tbb:
            self._component("tbb", "onetbb::libtbb")
        if self.options.with_openmp:
            self._component("openmp")
        if self.options.with_mpi:
            self._component("mpi")
        if self.options.with_thrust:
            self._component("thrust")
            self._component("thrust_cpp")
            if self.options.with_tbb:
                self._component("thrust_tbb", "onetbb::libtbb")
        if self.options.with_cuda:
            self._component("cuda")

    def _component(self, name, *requires):
        component = self.cpp_info.components[name]
        component.set_property("cmake_target_name", f"gradstep::{name}")
        component.requires = list(requires) if name == "core" else ["core", *requires]
        component.bindirs = []
        component.libdirs = []
        return component
