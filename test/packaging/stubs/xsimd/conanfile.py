import os

from conan import ConanFile
from conan.tools.files import mkdir


class Xsimd(ConanFile):
    """Debian's xsimd under the names of ConanCenter's recipe."""

    name = "xsimd"

    def package(self):
        mkdir(self, os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "xsimd")
        self.cpp_info.set_property("cmake_target_name", "xsimd")
        self.cpp_info.libdirs = self.cpp_info.bindirs = []
