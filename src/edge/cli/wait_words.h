// What a worker's words for waiting mean, in the command's lines. A pure function, any thread.
#pragma once

#include <string_view>

namespace lambent::cli {

// "every GPU ran as many as it may at once"; empty for a word that is not known here.
std::string_view wait_in_words(std::string_view wait_reason);

}  // namespace lambent::cli
