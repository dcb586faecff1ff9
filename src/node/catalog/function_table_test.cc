// The table of functions keeps every field that a function has.
#include "node/catalog/function_table.h"

#include <gtest/gtest.h>

#include <set>

#include "core/domain/testing/every_field.h"
#include "node/catalog/migrations.h"
#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

class FunctionTableTest : public testing::Test {
 protected:
  FunctionTableTest() : database_(std::move(*Database::open(folder_ / "catalog.db"))) {
    EXPECT_TRUE(migrate(*database_).ok());
    for (const FunctionSpec& spec : {FunctionSpec{}, with_every_field_set()}) {
      EXPECT_TRUE(
          database_
              ->run("INSERT OR IGNORE INTO tenants (id, name, weight, created_at_ns) VALUES (" +
                    std::to_string(spec.name.tenant.value) + ", 'tenant " +
                    std::to_string(spec.name.tenant.value) + "', 1, 0)")
              .ok());
    }
  }

  const TemporaryFolder folder_;
  std::unique_ptr<Database> database_;
};

// Expects that the fields of two functions are equal, one by one, so that a failure names them.
struct ExpectEqual {
  template <typename Value>
  void operator()(const FunctionField& field, const Value& one, const Value& other) {
    EXPECT_EQ(one, other) << field.column;
  }
};

TEST_F(FunctionTableTest, EveryFieldComesBack) {
  FunctionSpec spec = with_every_field_set();
  spec.id = {};
  spec.id = put_function(*database_, spec)->id;
  const std::vector<FunctionSpec> loaded = *load_functions(*database_);
  ASSERT_EQ(loaded.size(), 1u);
  ExpectEqual expect;
  visit_fields(expect, spec, loaded.front());
  EXPECT_EQ(loaded.front(), spec);
}

TEST_F(FunctionTableTest, AChangeReplacesEveryField) {
  FunctionSpec spec;
  spec.id = put_function(*database_, spec)->id;
  FunctionSpec changed = with_every_field_set();
  changed.id = spec.id;
  changed.name = spec.name;
  ASSERT_TRUE(put_function(*database_, changed).ok());
  EXPECT_EQ(*load_functions(*database_), std::vector<FunctionSpec>{changed});
}

// The columns that hold fields, of which maps have none.
struct Columns {
  std::set<std::string> names = {};

  template <typename Value>
  void operator()(const FunctionField& field, const Value&) {
    names.insert(std::string(field.column));
  }
  void operator()(const FunctionField&, const Variables&) {}
};

TEST_F(FunctionTableTest, KeepsTheLastFiringOfAScheduleAsLongAsItsFunction) {
  FunctionSpec spec = with_every_field_set();
  spec.id = {};
  spec.id = put_function(*database_, spec)->id;
  FiringRecord firing{.tenant = spec.name.tenant,
                      .function = spec.id,
                      .schedule = "nightly",
                      .due = seconds(1'700'000'000),
                      .invocation = InvocationId{1, 2}};
  ASSERT_TRUE(save_firing(*database_, firing).ok());
  firing.due += seconds(60);
  ASSERT_TRUE(save_firing(*database_, firing).ok());
  FiringRecord of_none = firing;
  of_none.function = FunctionId(99);
  EXPECT_TRUE(save_firing(*database_, of_none).ok());
  EXPECT_EQ(*load_firings(*database_), std::vector{firing});
  ASSERT_TRUE(remove_function(*database_, spec.name).ok());
  EXPECT_TRUE(load_firings(*database_)->empty());
}

TEST_F(FunctionTableTest, HasAColumnForEveryFieldAndNoOther) {
  Columns described;
  const FunctionSpec spec;
  visit_fields(described, spec);
  const CpuVariant variant;
  visit_cpu_variant(described, variant);
  std::set<std::string> columns;
  auto rows = database_->prepare("SELECT name FROM pragma_table_info('functions')");
  while (*rows->next()) columns.insert(rows->column_text(0));
  EXPECT_EQ(columns, described.names);
}

TEST_F(FunctionTableTest, AWordThatIsNotKnownIsALossOfData) {
  ASSERT_TRUE(put_function(*database_, FunctionSpec{}).ok());
  const std::pair<const char*, const char*> cases[] = {{"kind", "kind"},
                                                       {"runtime", "runtime"},
                                                       {"gpu_launch_mode", "launch mode"},
                                                       {"gpu_memory_mode", "memory mode"},
                                                       {"gpu_working_set", "working set"},
                                                       {"gpu_runtime", "GPU runtime"}};
  for (const auto& [column, noun] : cases) {
    ASSERT_TRUE(database_->run("SAVEPOINT whole").ok());
    ASSERT_TRUE(database_->run("UPDATE functions SET " + std::string(column) + " = 'odd'").ok());
    const auto loaded = load_functions(*database_);
    ASSERT_FALSE(loaded.ok()) << column;
    EXPECT_EQ(loaded.error().code, ErrorCode::kDataLoss);
    EXPECT_EQ(loaded.error().message, "the catalog has an unknown " + std::string(noun) + " 'odd'");
    ASSERT_TRUE(database_->run("ROLLBACK TO whole").ok());
    ASSERT_TRUE(database_->run("RELEASE whole").ok());
  }
}

}  // namespace
}  // namespace lambent::catalog
