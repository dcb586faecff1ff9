// Versions and aliases of functions. A version is a function as it was when it was published: a
// record of its own, named NAME:NUMBER, that never changes. An alias is a name for a version, or
// for two with shares. Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/domain/function.h"

namespace lambent {

// The function as it is now, which changes with every deployment.
constexpr std::string_view kLatestVersion = "$LATEST";

constexpr size_t kVersionsPerFunction = 100;
constexpr size_t kAliasesPerFunction = 100;
constexpr size_t kAliasNameLength = 128;
// That a publisher may ask for: a date with milliseconds fits, and there is room for all that
// follow.
constexpr uint64_t kMostVersionNumber = 999'999'999'999'999'999;
// Earlier revisions that a rollback can go back to.
constexpr size_t kRevisionsKept = 10;

struct QualifiedName {
  std::string name;
  std::string qualifier;  // empty: none was given
};
// "hello:prod" is hello and prod. Without ':' the qualifier is empty.
QualifiedName split_qualifier(std::string_view text);

// The name of a version's record: "hello:3".
FunctionName version_record(const FunctionName& function, uint64_t version);
// Of a record, or of a function: the function.
FunctionName function_of(const FunctionName& name);
bool is_version_record(const FunctionName& name);
// "3" of the record hello:3, "$LATEST" of a function.
std::string version_of(const FunctionName& name);
// 3 of "3"; nothing of anything else, of 0 and of what begins with it.
std::optional<uint64_t> version_number(std::string_view text);

struct Alias {
  FunctionName function;
  std::string name;
  std::string description;
  std::string version;  // a number, or $LATEST
  // A second version, which gets this share of the invocations, above 0 and below 1; empty: none.
  std::string second;
  double second_share = 0;
  unsigned provisioned = 0;  // instances of the version that are ready for it
  uint64_t revision = 1;     // counts up with every change

  bool operator==(const Alias&) const = default;
};

// INVALID_ARGUMENT, naming what is wrong: a name that looks like a version, shares that do not add
// up. Not whether its versions exist.
Result<void> validate(const Alias& alias);
// Of the instances of an alias, how many are of that version.
unsigned instances_of(const Alias& alias, std::string_view version);
// Which version serves an invocation; `point` is 0 to below 1.
const std::string& choose_version(const Alias& alias, double point);

// A revision that a function had, and can go back to.
struct Revision {
  FunctionSpec spec;
  bool is_current = false;
};

}  // namespace lambent
