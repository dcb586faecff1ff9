// A SecretService in memory for the frontend's tests. Included by tests only; one thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/domain/secret.h"

namespace lambent::frontend {

class FakeSecrets final : public SecretService {
 public:
  void put_secret(TenantId tenant, std::string name, std::string value,
                  Callback<SecretStatus> done) override {
    values_[{tenant, name}] = std::move(value);
    done(SecretStatus{std::move(name), seconds(1)});
  }
  void remove_secret(TenantId tenant, const std::string& name,
                     Callback<SecretStatus> done) override {
    if (values_.erase({tenant, name}) == 0) {
      return done(Error{ErrorCode::kNotFound, "there is no secret '" + name + "'"});
    }
    done(SecretStatus{name, seconds(1)});
  }
  std::vector<SecretStatus> list_secrets(TenantId tenant) const override {
    std::vector<SecretStatus> listed;
    for (const auto& [key, value] : values_) {
      if (key.first == tenant) listed.push_back({key.second, seconds(1)});
    }
    return listed;
  }
  std::optional<std::string> find_secret(TenantId tenant, const std::string& name) const override {
    const auto found = values_.find({tenant, name});
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::map<std::pair<TenantId, std::string>, std::string> values_;
};

}  // namespace lambent::frontend
