// ModelDirectory: which function of a tenant serves a model by OpenAI's API. Where several name it,
// the one that was changed last does, so that one function can take a model over from another. On
// the loop thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/domain/invocation_service.h"

namespace lambent::frontend {

struct ServedModel {
  std::string model;
  std::string function;
  Duration since{};  // when that was changed, since the Unix epoch
};

class ModelDirectory {
 public:
  // All outlive it.
  ModelDirectory(const InvocationService& service, const Clock& clock)
      : service_(service), clock_(clock) {}

  // Nothing if no function serves it. A function that is deployed serves at once what no other
  // served, and a second later what another one served.
  std::optional<std::string> function_for(TenantId tenant, const std::string& model);
  // In order of name.
  std::vector<ServedModel> list(TenantId tenant) const;

 private:
  using Functions = std::map<std::string, std::string>;  // by model
  struct Read {
    Instant at{};
    Functions functions;
  };
  const Functions& read(TenantId tenant);
  bool serves(TenantId tenant, const std::string& function, const std::string& model) const;

  const InvocationService& service_;
  const Clock& clock_;
  std::map<TenantId, Read> read_;  // at most one for each tenant
};

}  // namespace lambent::frontend
