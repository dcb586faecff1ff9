// What an image's tree of foreign files is asked: its users, its C library. Every path is followed
// as if the tree were all there is, whatever its links say. Blocks; used by lambent-environment.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "node/images/pull_order.h"

namespace lambent::images {

// The beginning of a plain file below `root`, at most `most` bytes. NOT_FOUND: there is none.
Result<std::string> read_inside(const std::string& root, const std::string& path, size_t most);

CLibrary c_library_of(const std::string& root);

// The version of glibc that a library of ours needs, "2.34"; empty: it names none. Blocks.
std::string glibc_needed_by(const std::string& file);

// Whether version `have` ("2.36") is `needed` or later. Pure.
bool is_version_at_least(std::string_view have, std::string_view needed);

// Removes a tree in which folders may have forbidden it. Whatever fails is left.
void remove_tree(const std::string& path);

}  // namespace lambent::images
