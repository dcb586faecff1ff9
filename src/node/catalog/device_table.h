// What is kept of GPUs, in the database. Free functions of the catalog's writer thread, each to be
// called inside a transaction.
#pragma once

#include <vector>

#include "node/catalog/database.h"
#include "node/catalog/records.h"

namespace lambent::catalog {

Result<void> save_device(Database& database, const DeviceRecord& record);
Result<std::vector<DeviceRecord>> load_devices(Database& database);

}  // namespace lambent::catalog
