#include "node/catalog/device_table.h"

namespace lambent::catalog {

Result<void> save_device(Database& database, const DeviceRecord& record) {
  ASSIGN_OR_RETURN(Statement put,
                   database.prepare("INSERT OR REPLACE INTO devices (uuid, drained_by_operator, "
                                    "operators_reason, sickness, errors, errors_accepted, "
                                    "repair_accepted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"));
  put.bind_text(1, record.uuid).bind(2, int64_t{record.drained_by_operator});
  put.bind_text(3, record.operators_reason).bind_text(4, record.sickness);
  put.bind(5, record.errors).bind(6, record.errors_accepted);
  put.bind(7, int64_t{record.repair_accepted});
  return put.run();
}

Result<std::vector<DeviceRecord>> load_devices(Database& database) {
  std::vector<DeviceRecord> records;
  ASSIGN_OR_RETURN(Statement rows,
                   database.prepare("SELECT uuid, drained_by_operator, operators_reason, sickness, "
                                    "errors, errors_accepted, repair_accepted FROM devices ORDER "
                                    "BY uuid"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next());
    if (!more) return records;
    DeviceRecord record;
    record.uuid = rows.column_text(0);
    record.drained_by_operator = rows.column_int(1) != 0;
    record.operators_reason = rows.column_text(2);
    record.sickness = rows.column_text(3);
    record.errors = rows.column_uint(4);
    record.errors_accepted = rows.column_uint(5);
    record.repair_accepted = rows.column_int(6) != 0;
    records.push_back(std::move(record));
  }
}

}  // namespace lambent::catalog
