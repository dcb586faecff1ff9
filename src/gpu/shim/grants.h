// What this process asks of the worker for memory that is offloaded: the worker counts it as not on
// the device, so it comes in when that has granted the memory. Asked on the program's threads,
// answered by the agent's.
#pragma once

#include <stdint.h>

namespace lambent::shim {

class MemorySocket;
class Residency;

// From now on the worker is asked there; null: there is none to ask, and nothing is granted.
void ask_on(MemorySocket* socket);
// Whether what is wanted of what is offloaded may come in: asks for what is not granted yet, and
// waits for the answer, but not for ever, and not again soon after a refusal.
bool is_granted(Residency& memory);
// The answer; zero is a refusal. True: no thread waits for it any more, and the memory may come in.
bool take_grant(Residency& memory, uint64_t bytes);
void grants_start_afresh_in_child();

}  // namespace lambent::shim
