// expected-error: gradstep: save and load of files: include <gradstep/io/checkpoint.hpp>
#include <gradstep/gradstep.hpp>

void save(gradstep::model const& net) { net.save("model.safetensors"); }
