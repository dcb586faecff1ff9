// CatalogReplica: keeps this node's functions, with their versions and aliases, and its tenants as
// the cluster's home has them. It asks
// each second, or when told, and deploys here what differs; code comes by its digest and is
// verified. Functions and tenants that were here before, and that the home does not know, stay.
// Loop thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/domain/access_service.h"
#include "core/domain/invocation_service.h"
#include "core/domain/version_copies.h"
#include "core/domain/version_service.h"
#include "core/http/message.h"
#include "core/loop/event_loop.h"

namespace lambent::frontend {

class CatalogReplica {
 public:
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    InvocationService& functions;
    const VersionService& versions;
    VersionCopies& copies;
    AccessService& access;
    std::function<bool()> is_replica;  // whether another node is the home
    std::function<bool()> has_home;    // whether it is known which node that is
    std::function<void(std::string target, std::function<void(Result<http::Response>)>)> ask_home;
    // What to say beside what cannot be read of the home's, such as which program is too old; may
    // be empty.
    std::function<std::string()> version_advice = {};
    // Whether tenants that go there go here, with what this node keeps of theirs.
    bool removes_tenants = false;
  };
  // `record`: the file with the names of functions that came from the home; blocks to read it.
  CatalogReplica(Dependencies dependencies, std::string record);
  ~CatalogReplica();
  CatalogReplica(const CatalogReplica&) = delete;
  CatalogReplica& operator=(const CatalogReplica&) = delete;

  // Asks the home now; `then` once the function is as it is there, or is not there. UNAVAILABLE: it
  // cannot be told, or the function is there and is not here.
  using Then = std::function<void(Result<void>)>;
  void catch_up(const FunctionName& function, Then then);
  void changed() { ask_soon(); }
  // Whether the home had a function of that name when it was asked last.
  bool names(const std::string& tenant, const std::string& name) const {
    return there_.contains({tenant, name});
  }
  // By tenant and name: those that the home has and that could not be copied when last tried.
  std::vector<std::pair<std::string, std::string>> not_copied() const;
  // Whether some of what this node has came from a home.
  bool has_copies() const { return !copied_.empty(); }
  // A function of this node that all nodes have agreed on: it goes from here when it goes there.
  void agreed(const std::string& tenant, const std::string& name) {
    remember({tenant, name}, true);
  }

 private:
  // Of the tenant and the function, version or alias; without one, of the tenant itself.
  using Name = std::pair<std::string, std::string>;
  struct Step {
    Name name;
    std::string digest;
    bool removes = false;
  };

  void ask_soon();
  void ask();
  void answered(Result<http::Response> answer);
  void read_catalog(const nlohmann::json& catalog);
  void read_functions(const nlohmann::json& functions, std::set<Name>& there);
  // At a deployment that was answered before it ended, as its image or its packages take long: it
  // goes on, or it failed and is tried again, or not. False: it is of another change, and over.
  bool look_at(const DeploymentStatus& begun, const Name& name, const std::string& digest);
  void note_failed(const Name& name, const std::string& digest);
  void add_step(const Name& name, const std::string& digest);
  // Whether the one with that digest failed, and it is too early to try it again.
  bool waits(const Name& name, const std::string& digest) const;
  void note_not_copied(const Name& name, const Error& why);
  // The numbers that all nodes have for what is here.
  void take_numbers(const nlohmann::json& functions);
  // Of what is here; empty: it is not here.
  std::string digest_here(TenantId tenant, const std::string& name) const;
  void take_tenants(const nlohmann::json& tenants);
  void remove_tenant(const Step& step);
  void next_step();
  void fetch_function(const Step& step);
  void remove_alias(const Step& step);
  void take_alias(const Step& step, const nlohmann::json& copy);
  void deploy(const Step& step, const nlohmann::json& copy);
  void apply(const Step& step, FunctionChange change);
  // `goes_on`: it was answered before it ended.
  void step_done(const Step& step, const Result<void>& outcome, bool goes_on = false);
  // `read`: whether the home's catalog was.
  void finish(const Result<void>& read);
  // How the function is here, after that.
  Result<void> outcome_of(const FunctionName& function, const Result<void>& read) const;
  void remember(const Name& name, bool is_here);

  const Dependencies uses_;
  const std::string record_;
  std::set<Name> copied_;
  // What was tried and is wrong by all appearances, such as a package that no index has. Others
  // have it, so that it is tried again, each time later; at once if it changes.
  struct Failed {
    std::string digest;
    Duration wait{};
    Instant again{};
  };
  std::map<Name, Failed> failed_;
  std::deque<Step> steps_;
  struct Waiting {
    FunctionName function;
    Then then;
  };
  std::vector<Waiting> waiting_, waiting_next_;
  // The functions that the home has, and why the last that could not be copied could not.
  std::set<Name> there_;
  std::map<Name, std::string> not_copied_;
  bool busy_ = false;
  bool again_ = false;
  std::string known_version_;
  loop::TimerId timer_;
  // Points to this until it ends. Shared with callbacks.
  std::shared_ptr<CatalogReplica*> self_;
};

}  // namespace lambent::frontend
