import os

from conan import ConanFile
from conan.tools.files import mkdir


class Eigen(ConanFile):
    """Debian's Eigen under the names of ConanCenter's recipe."""

    name = "eigen"

    def package(self):
        mkdir(self, os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "Eigen3")
        self.cpp_info.set_property("cmake_target_name", "Eigen3::Eigen")
        self.cpp_info.includedirs = ["/usr/include/eigen3"]  # of libeigen3-dev, outside the compiler's own folders
        self.cpp_info.libdirs = self.cpp_info.bindirs = []
