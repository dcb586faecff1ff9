// Secrets: values that a tenant keeps at the node and its functions get when they start, by
// references in their environment: "${secret:NAME}" becomes the value, "${secret-file:NAME}" the
// path of a file that holds it. Values and pure functions, any thread; and the interfaces to what
// keeps them, loop thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent {

// Where sandboxes find the files.
inline constexpr char kSecretFolder[] = "/run/secrets";

// What is known of a secret beside its value, which is never shown.
struct SecretStatus {
  std::string name;
  Duration changed_at{};  // since the Unix epoch

  bool operator==(const SecretStatus&) const = default;
};

// 1 to 64 letters, digits, '-', '_' and '.', not beginning with '.'; INVALID_ARGUMENT otherwise.
Result<void> validate_secret_name(std::string_view name);

// Names and values, as of an environment.
using Variables = std::map<std::string, std::string>;

// The names in the references of an environment. INVALID_ARGUMENT, naming the variable, for a
// reference without an end or with a name that no secret can have.
Result<std::set<std::string>> secret_names(const Variables& environment);

struct ResolvedEnvironment {
  Variables variables;
  Variables files;  // to be found in kSecretFolder: name and contents
};
// `find` gives a secret's value; nothing if there is none: FAILED_PRECONDITION, naming it. Also of
// one with a NUL that is to be a variable. A value that looks like a reference stays as it is.
Result<ResolvedEnvironment> resolve_secrets(
    const Variables& environment,
    const std::function<std::optional<std::string>(const std::string& name)>& find);

class SecretService {
 public:
  template <typename T>
  using Callback = std::function<void(Result<T>)>;

  virtual ~SecretService() = default;
  // Durable before `done` is called with a value. INVALID_ARGUMENT: its name; OUT_OF_RANGE: its
  // size; RESOURCE_EXHAUSTED: the tenant has too many. Functions that refer to it get new
  // sandboxes, and none of them runs with the value before once `done` was called.
  virtual void put_secret(TenantId tenant, std::string name, std::string value,
                          Callback<SecretStatus> done) = 0;
  // NOT_FOUND; FAILED_PRECONDITION, naming some, while functions refer to it.
  virtual void remove_secret(TenantId tenant, const std::string& name,
                             Callback<SecretStatus> done) = 0;
  // In order of name.
  virtual std::vector<SecretStatus> list_secrets(TenantId tenant) const = 0;
  // For what starts functions, and nothing else.
  virtual std::optional<std::string> find_secret(TenantId tenant,
                                                 const std::string& name) const = 0;
};

}  // namespace lambent
