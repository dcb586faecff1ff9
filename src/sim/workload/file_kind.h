// What a file is that begins with these bytes, where it is no table: packed, an archive, a page of
// the web. Pure; used by the readers of tables, for errors that say what to do.
#pragma once

#include <string>
#include <string_view>

namespace lambent::workload {

// What is wrong and what helps, after the file's name: "is packed with xz: xz -dc 't.csv.xz' >
// ...". Empty if it may well be a table. `file` is named in the commands.
std::string no_table_because(std::string_view begin, const std::string& file);

}  // namespace lambent::workload
