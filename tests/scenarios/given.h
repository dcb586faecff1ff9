// Given: the first part of a scenario: the machine, the options, the functions. Used by the runner.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "decide/dispatch/dispatcher.h"
#include "decide/scheduling/make_policy.h"
#include "tests/scenarios/words.h"

namespace lambent::scenario {

class Given {
 public:
  // Reads one line of it; false if the line belongs to the story already.
  bool read(Words& words);
  std::unique_ptr<dispatch::Dispatcher> build() const;

  // By name. Ids count from 1 in the order of the lines.
  std::map<std::string, dispatch::FunctionProfile> functions;
  // Those that lines name; a function that names none is of the tenant "default", which has id 1.
  std::map<std::string, dispatch::TenantChanged> tenants;

  // The rest of a line, as the weight and the quotas of a tenant.
  static void read_tenant(Words& words, dispatch::TenantChanged& tenant);

 private:
  void read_policy(Words& words);
  void read_device(Words& words);
  void read_function(Words& words);
  dispatch::TenantChanged& tenant(const std::string& name);
  bool read_option(Words& words);

  std::string policy_ = "mqfq-sticky";
  scheduling::PolicyOptions policy_options_;
  dispatch::DispatchOptions options_;
};

}  // namespace lambent::scenario
