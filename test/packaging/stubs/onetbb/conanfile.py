from conan import ConanFile


class Onetbb(ConanFile):
    """Debian's TBB under the names of ConanCenter's recipe."""

    name = "onetbb"

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "TBB")
        tbb = self.cpp_info.components["libtbb"]
        tbb.set_property("cmake_target_name", "TBB::tbb")
        tbb.includedirs = tbb.libdirs = tbb.bindirs = []
        tbb.system_libs = ["tbb"]
