// Records of events and waits for them, wherever they were recorded: what streams, graphs and
// contexts do with events. Any thread.
#pragma once

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

// A record is under way; its number, to be given to Event::record and finish_record. 0 for an event
// that no other process can see.
uint64_t begin_record(Process& process, Event& event);
// It has been reached; says so to the other processes.
void finish_record(Event& event, uint64_t number, int64_t at_ns);

// What a wait that begins now waits for; null: the event was never recorded. Of a record of another
// process a thread of ours looks for the end.
CompletionPtr last_end(Process& process, Context& context, const std::shared_ptr<Event>& event);
// Whether it was recorded at all.
bool was_recorded(const Event& event);
// Whether the last record has been reached, or there is none.
bool is_reached(Process& process, const Event& event);
void wait_until_reached(Process& process, const Event& event);

// A completion that ends when `work` has been done, behind `after`, on a thread of its own.
CompletionPtr submit_offloaded(Process& process, Context& context, std::vector<CompletionPtr> after,
                               Work work);

}  // namespace lambent::emulated_cuda
