// A node's copy of the tokens and secrets that all nodes of its cluster have, as text in a file of
// its state: with it a node starts while PostgreSQL cannot be reached. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "node/catalog/shared_access_tables.h"

namespace lambent {

std::string text_of_shared_access(const catalog::SharedAccess& access);
// Of what is damaged nothing is taken, but for entries that are whole. The version is 0.
catalog::SharedAccess read_shared_access_text(std::string_view text);

}  // namespace lambent
