// Places in documents that people write, and errors that name them: "components[2].input: text is
// expected". Pure functions; used by the readers of such documents, on any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace lambent {

// INVALID_ARGUMENT: the place, a colon, and what is wrong there.
Error invalid_at(const std::string& place, const std::string& what);

// Of an element of a list: "components[2]".
std::string item_place(const std::string& place, size_t index);

// Of an object's value: "components[2].input". The empty place is the document itself: the places
// of its values are only their keys.
std::string member_place(const std::string& place, std::string_view key);

}  // namespace lambent
