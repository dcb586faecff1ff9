#include "node/catalog/function_columns.h"

#include <concepts>
#include <optional>
#include <utility>

#include "core/domain/function_fields.h"
#include "core/domain/function_words.h"

namespace lambent::catalog {
namespace {

// The columns in the order of the fields, with the id, which the database gives, or without it.
class ColumnNames {
 public:
  explicit ColumnNames(bool with_id) : with_id_(with_id) {
    const FunctionSpec any;
    visit_fields(*this, any);
  }

  template <typename Value>
  void operator()(const FunctionField& field, const Value&) {
    list_ += (list_.empty() ? "" : ", ") + std::string(field.column);
    ++count_;
  }
  void operator()(const FunctionField& field, const FunctionId& id) {
    if (with_id_) operator()<FunctionId>(field, id);
  }
  void operator()(const FunctionField&, const Variables&) {}
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& variant) {
    (*this)(field, variant.has_value());
    const CpuVariant any;
    visit_cpu_variant(*this, any);
  }

  const std::string& list() const { return list_; }
  int count() const { return count_; }

 private:
  bool with_id_;
  std::string list_;
  int count_ = 0;
};

// Binds the fields in the order of ColumnNames without the id.
class FieldBinder {
 public:
  explicit FieldBinder(Statement& statement) : statement_(statement) {}

  void operator()(const FunctionField&, const FunctionId&) {}
  void operator()(const FunctionField&, const TenantId& tenant) {
    statement_.bind(++parameter_, uint64_t{tenant.value});
  }
  void operator()(const FunctionField&, const std::string& text) {
    statement_.bind_text(++parameter_, text);
  }
  template <std::unsigned_integral Number>
  void operator()(const FunctionField&, const Number& number) {
    statement_.bind(++parameter_, uint64_t{number});
  }
  void operator()(const FunctionField&, const double& number) {
    statement_.bind(++parameter_, number);
  }
  void operator()(const FunctionField&, const Bytes& amount) {
    statement_.bind(++parameter_, amount.count);
  }
  void operator()(const FunctionField&, const Duration& duration) {
    statement_.bind(++parameter_, duration.count());
  }
  template <HasWords Enum>
  void operator()(const FunctionField&, const Enum& value) {
    statement_.bind_text(++parameter_, name_of(value));
  }
  void operator()(const FunctionField&, const Mounts& mounts) {
    statement_.bind_text(++parameter_, text_of(mounts));
  }
  void operator()(const FunctionField&, const Schedules& schedules) {
    statement_.bind_text(++parameter_, text_of(schedules));
  }
  void operator()(const FunctionField&, const NetworkAccess& access) {
    statement_.bind_text(++parameter_, text_of(access));
  }
  void operator()(const FunctionField&, const Variables&) {}
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& variant) {
    (*this)(field, variant.has_value());
    const CpuVariant described = variant.value_or(CpuVariant{});
    visit_cpu_variant(*this, described);
  }

 private:
  Statement& statement_;
  int parameter_ = 0;
};

// Reads the fields in the order of ColumnNames with the id.
class FieldReader {
 public:
  explicit FieldReader(const Statement& row) : row_(row) {}

  template <typename Tag, typename Number>
  void operator()(const FunctionField&, StrongId<Tag, Number>& id) {
    id = StrongId<Tag, Number>(static_cast<Number>(row_.column_uint(column_++)));
  }
  void operator()(const FunctionField&, std::string& text) { text = row_.column_text(column_++); }
  template <std::unsigned_integral Number>
  void operator()(const FunctionField&, Number& number) {
    number = static_cast<Number>(row_.column_uint(column_++));
  }
  void operator()(const FunctionField&, double& number) { number = row_.column_double(column_++); }
  void operator()(const FunctionField&, Bytes& amount) {
    amount = Bytes(row_.column_uint(column_++));
  }
  void operator()(const FunctionField&, Duration& duration) {
    duration = Duration(row_.column_int(column_++));
  }
  template <HasWords Enum>
  void operator()(const FunctionField&, Enum& value) {
    const std::string word = row_.column_text(column_++);
    if (const auto known = value_named<Enum>(word)) {
      value = *known;
    } else if (verdict_.ok()) {
      verdict_ =
          Error{ErrorCode::kDataLoss, "the catalog has an unknown " +
                                          std::string(Words<Enum>::kNoun) + " '" + word + "'"};
    }
  }
  void operator()(const FunctionField&, Mounts& mounts) {
    auto read = parse_mounts(row_.column_text(column_++));
    if (read.ok()) {
      mounts = std::move(*read);
    } else if (verdict_.ok()) {
      verdict_ = Error{ErrorCode::kDataLoss, "the catalog has bad mounts: " + read.error().message};
    }
  }
  void operator()(const FunctionField&, Schedules& schedules) {
    auto read = parse_schedules(row_.column_text(column_++));
    if (read.ok()) {
      schedules = std::move(*read);
    } else if (verdict_.ok()) {
      verdict_ =
          Error{ErrorCode::kDataLoss, "the catalog has bad schedules: " + read.error().message};
    }
  }
  void operator()(const FunctionField&, NetworkAccess& access) {
    auto read = parse_network_access(row_.column_text(column_++));
    if (read.ok()) {
      access = std::move(*read);
    } else if (verdict_.ok()) {
      verdict_ =
          Error{ErrorCode::kDataLoss, "the catalog has a bad network: " + read.error().message};
    }
  }
  void operator()(const FunctionField&, Variables&) {}
  void operator()(const FunctionField& field, std::optional<CpuVariant>& variant) {
    bool is_there = false;
    (*this)(field, is_there);
    CpuVariant read;
    visit_cpu_variant(*this, read);
    if (is_there) variant = std::move(read);
  }

  // DATA_LOSS for the first word that is not known.
  const Result<void>& verdict() const { return verdict_; }

 private:
  const Statement& row_;
  int column_ = 0;
  Result<void> verdict_;
};

}  // namespace

const FunctionColumns& function_columns() {
  static const FunctionColumns columns = [] {
    const ColumnNames written(false);
    FunctionColumns made{.names = written.list(),
                         .names_with_id = ColumnNames(true).list(),
                         .parameters = "?1",
                         .count = written.count()};
    for (int i = 2; i <= made.count; ++i) made.parameters += ", ?" + std::to_string(i);
    return made;
  }();
  return columns;
}

void bind_columns(Statement& statement, const FunctionSpec& spec) {
  FieldBinder binder(statement);
  visit_fields(binder, spec);
}

Result<FunctionSpec> read_columns(const Statement& row) {
  FunctionSpec spec;
  FieldReader reader(row);
  visit_fields(reader, spec);
  RETURN_IF_ERROR(reader.verdict());
  return spec;
}

}  // namespace lambent::catalog
