// Events and actions in a line of words each, for the trace of a run that went wrong. Pure.
#pragma once

#include <string>

#include "decide/dispatch/action.h"
#include "decide/dispatch/event.h"

namespace lambent::simulator {

std::string in_words(const dispatch::Event& event);
std::string in_words(const dispatch::Action& action);

}  // namespace lambent::simulator
