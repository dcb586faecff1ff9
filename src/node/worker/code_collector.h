// CodeCollector: removes code that no function and no revision has any more, and gives up the
// packages and the image that it had. A part of Deployments, on the loop thread.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "node/environments/store.h"
#include "node/images/store.h"
#include "node/worker/aliases.h"
#include "node/worker/code_store.h"
#include "node/worker/function_registry.h"

namespace lambent::worker {

class CodeCollector {
 public:
  // All outlive it.
  struct Dependencies {
    FunctionRegistry& functions;
    Revisions& revisions;
    CodeStore& code;
    environments::EnvironmentStore* environments = nullptr;  // null: no Python packages
    images::ImageStore* images = nullptr;                    // null: no images
  };
  explicit CodeCollector(Dependencies dependencies) : uses_(dependencies) {}

  // This code was unpacked; whether anything comes to use it shows later.
  void came(const std::string& sha256) { unpacked_.insert(sha256); }
  // A function has this code from now on.
  void used_by(const FunctionSpec& spec);
  // Of what came, and of what a change left, that which nothing uses: a change costs the same
  // however many functions there are. Nothing while a function is being changed, whose code may be
  // unpacked already.
  void collect();
  // Of all that there is; once, at the start.
  void collect_all();

 private:
  // The folders of codes that nothing uses, of those that no function has any more and others.
  std::vector<std::string> take_unused(std::vector<std::string> released);
  // The folders of those codes to which a function can only be rolled back: no client changes a
  // part of them.
  std::vector<std::string> only_revisions_have(const std::vector<std::string>& sha256);

  const Dependencies uses_;
  std::set<std::string> unpacked_;  // digests, since collect() looked last
};

}  // namespace lambent::worker
