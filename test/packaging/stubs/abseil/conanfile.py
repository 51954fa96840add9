from conan import ConanFile


class Abseil(ConanFile):
    """Debian's abseil under the names of ConanCenter's recipe."""

    name = "abseil"

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "absl")
        for name, libs in (("flat_hash_set", ["absl_raw_hash_set", "absl_throw_delegate", "absl_raw_logging_internal"]),
                           ("hash", ["absl_hash", "absl_city", "absl_low_level_hash"])):
            component = self.cpp_info.components[f"absl_{name}"]
            component.set_property("cmake_target_name", f"absl::{name}")
            component.includedirs = component.libdirs = component.bindirs = []
            component.system_libs = libs
