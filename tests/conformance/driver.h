// The driver under test, loaded at run time: whatever libcuda.so.1 the library path or the flag
// --driver gives. Used by the conformance cases, main thread first.
#pragma once

#include <string>
#include <vector>

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/cuda_abi/nvml.h"

namespace lambent::conformance {

struct Driver {
#define DRIVER_FUNCTION(name, symbol, parameters) CUresult(*name) parameters = nullptr;
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION
  bool emulated = false;    // told by its device's name
  bool model_mode = false;  // of the emulator: kernels take their time without running

  // Loads every function of the table; says what is missing.
  bool load(const std::string& path, std::string* error);
};

struct Nvml {
#define NVML_FUNCTION(name, symbol, parameters) nvmlReturn_t(*name) parameters = nullptr;
#include "gpu/cuda_abi/nvml_table.inc"
#undef NVML_FUNCTION
  bool load(const std::string& path, std::string* error);
};

Driver& driver();
std::string driver_path();
std::string nvml_path();
// The folder of --data; empty: what is needed lies where it was built.
std::string data_path();

// Files that the cases need: the kernels for the host and for a GPU, a kernel of another version,
// the configurations of nodes.
std::string host_module();
std::string gpu_module();
std::string outdated_module();
std::string presets();

// The image of the test kernels in the form that this driver takes: a host ELF for the emulated
// one, PTX for a GPU. Empty, with the reason, if there is none.
std::vector<char> kernel_image(std::string* why_not);

// Runs this program again in a role of its own ("--role=NAME"), the other end of its standard
// input and output in our hands.
struct Peer {
  int pid = -1;
  int to = -1, from = -1;
  bool start(const std::string& role);
  bool expect(char byte);  // the next byte that the peer writes
  void tell(char byte);
  std::string read_line();
  void kill_and_wait();
  int wait_for_exit();
};
// A file descriptor, to and from a peer; it hears on descriptor 0.
bool send_descriptor(int socket, int descriptor);
int receive_descriptor(int socket);
// What a peer does; its return value is its exit status.
int play(const std::string& role);
int play_checkpoint();
int play_node(const std::string& role);
int play_faults(const std::string& role);

}  // namespace lambent::conformance
