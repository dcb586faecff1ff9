// lambent init: writes the folder of a small function that works, to begin with. What is written
// comes from templates (share/init), a folder for each kind; used by main, on one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/http/client.h"
#include "edge/cli/console.h"

namespace lambent::cli {

// What can be begun with, in the order in which it is told; the first unless another is asked for.
struct InitKind {
  std::string_view name;   // its folder of templates
  std::string_view event;  // what the first invocation is given
  std::string_view build;  // what is to be run in the new folder before it is deployed, or nothing
  bool is_asked_by_http = false;  // at its URL, which deploying tells, and not by `invoke`
  std::string_view worker = "lambent serve";  // what starts a worker that takes it
  std::string_view
      run;  // of a Python file (lambent.App): what `lambent run` is told behind the folder
};
const std::vector<InitKind>& init_kinds();
// Nothing if there is no such kind. Other names for kinds, such as "c++" and "python3.11", are
// known.
const InitKind* init_kind_from(std::string_view name);

struct TemplateFile {
  std::string path;  // within the folder
  std::string text;
};

// The name of the function in `folder`: its last part. INVALID_ARGUMENT if no function can be
// called so.
Result<std::string> name_for_folder(const std::string& folder);
// With the function's name in place of @NAME@. INVALID_ARGUMENT if a manifest among them would be
// refused, such as for a name that is too long.
Result<std::vector<TemplateFile>> fill_templates(std::vector<TemplateFile> files,
                                                 const std::string& name);

struct InitOptions {
  std::string folder = "hello";  // "." is the working folder
  std::string kind = "python";
  std::string templates;         // the folder of templates; empty: they were not found
  http::Endpoint endpoint = {};  // of the worker that the next commands are for
};
// ALREADY_EXISTS, and nothing is written, where a file is there already. What cannot be written to
// the end is taken back. Tells the commands that come next.
int run_init(Console& console, const InitOptions& options);

}  // namespace lambent::cli
