// Events and actions in words, for readers of a journal. Pure.
#pragma once

#include <string>

#include "decide/dispatch/action.h"
#include "decide/dispatch/event.h"
#include "decide/journal/segment_header.h"

namespace lambent::journal {

// "resnet" or, where it has no name, "function 3".
std::string name_in(const Names& names, FunctionId function);
// "GPU 1", or "the host" for what uses none.
std::string device_in_words(DeviceId device);
// "GPU 0 and GPU 1", of an action's `beside`.
std::string devices_in_words(DeviceId device, uint64_t beside);
// "1.204 s", "13.1 ms", "250 us": three figures and a unit.
std::string duration_in_words(Duration duration);

std::string in_words(const dispatch::Event& event, const Names& names);
std::string in_words(const dispatch::Action& action, const Names& names);

}  // namespace lambent::journal
