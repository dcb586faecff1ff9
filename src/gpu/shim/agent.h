// The agent: the thread of this process that moves its device memory when the worker says so. It
// starts when the program first uses the driver, takes no signals, and is made afresh in a forked
// child that does.
#pragma once

namespace lambent::shim {

// The program has a context or memory on a device. Starts the agent if there is none yet and a
// worker to listen to is configured. Any thread.
void program_uses_the_driver();

// Has what is offloaded and was named by a call fetched, as far as that can be done now. On the
// program's thread, which holds no GateScope.
void fetch_what_is_wanted();

}  // namespace lambent::shim
