// What text is UTF-8. Pure; any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace lambent {

bool is_utf8(std::string_view text);
// How many bytes at its end are the first ones of a character that is not there whole.
size_t cut_character(std::string_view text);

}  // namespace lambent
