// Deploying a function: what we send to create or change one, its settings in the Lambda API's
// words. Pure; used by deploy and replay.
#pragma once

#include <string>
#include <string_view>

#include "core/domain/function.h"
#include "core/http/message.h"

namespace lambent::cli {

// One call that creates or changes a function: its settings and, if there is one, its code.
struct DeployRequestOptions {
  std::string zip = {};          // empty: the code that the worker has already, by its digest
  std::string code_sha256 = {};  // of the code, if it is not sent, or not all of it
  std::string delta = {};        // what makes the code out of that of `base_sha256`; empty: nothing
  std::string base_sha256 = {};
  bool dry_run = false;
};
// The settings as they are sent: JSON.
std::string settings_text(const FunctionSpec& spec);
http::Request deploy_request(const FunctionSpec& spec, const DeployRequestOptions& options);

// "/2015-03-31/functions/NAME" with `rest` after it.
std::string function_target(const std::string& name, std::string_view rest = "");

}  // namespace lambent::cli
