import os

from conan import ConanFile
from conan.tools.files import mkdir


class Xtensor(ConanFile):
    """Debian's xtensor under the names of ConanCenter's recipe, which asks for one version of xsimd."""

    name = "xtensor"
    requires = "xsimd/8.1.0"

    def package(self):
        mkdir(self, os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "xtensor")
        self.cpp_info.set_property("cmake_target_name", "xtensor")
        self.cpp_info.libdirs = self.cpp_info.bindirs = []
