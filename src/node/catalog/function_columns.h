// The columns of the table `functions`, from the description of a function's fields
// (core/domain/function_fields.h). Free functions of the catalog's writer thread. A map has no
// column: its values are rows of function_variables.
#pragma once

#include <string>

#include "core/domain/function.h"
#include "node/catalog/database.h"

namespace lambent::catalog {

struct FunctionColumns {
  // Joined by commas. The first one is the tenant and the second the name; the id, which the
  // database gives, is left out.
  std::string names;
  // As a row is read.
  std::string names_with_id;
  std::string parameters;  // "?1, ?2, ..."
  int count = 0;           // of parameters
};
const FunctionColumns& function_columns();

// Binds the fields to function_columns().parameters.
void bind_columns(Statement& statement, const FunctionSpec& spec);
// From a row of function_columns().names_with_id. DATA_LOSS for a word that is not known.
Result<FunctionSpec> read_columns(const Statement& row);

}  // namespace lambent::catalog
