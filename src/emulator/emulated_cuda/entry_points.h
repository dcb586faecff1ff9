// What stands between the exported stubs and the functions behind them while calls are counted or a
// fault plan is in force; otherwise a stub pays one comparison. Any thread.
#pragma once

#include <string>
#include <vector>

#include "emulator/emulated_node/fault_plan.h"

namespace lambent::emulated_cuda {

// Adds faults to those in force in this process. A plan that names a function which the driver does
// not have is refused with a reason.
bool add_faults(const std::vector<emulated_node::Fault>& plan, std::string* error);

class Process;
// Puts into force what the plan of the node says, and strikes the devices that the plan of the
// process strikes at once. For cuInit.
void take_up_faults(Process& process);

// Counts every call from now on; when the process exits, its counts are appended to the file.
void count_calls(const std::string& path);

}  // namespace lambent::emulated_cuda
