// Backups, of the C interface.
#include "dLSM/backup.h"
#include "db/c/c_errors.h"
#include "db/c/c_handles.h"

using dlsm::c::Check;
using dlsm::c::Fails;

extern "C" {

void dlsm_write_backup(dlsm_t* db, const char* path, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(db, "db"));
    DLSM_RETURN_IF_ERROR(Check(path, "path"));
    return dlsm::WriteBackup(db->db.get(), {}, path, nullptr);
  });
}

void dlsm_check_backup(const char* path, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(path, "path"));
    return dlsm::CheckBackup(path, nullptr);
  });
}

void dlsm_restore_backup(dlsm_t* db, const char* path, uint8_t overwrite, char** errptr) {
  Fails(errptr, [&] {
    DLSM_RETURN_IF_ERROR(Check(db, "db"));
    DLSM_RETURN_IF_ERROR(Check(path, "path"));
    dlsm::RestoreOptions options;
    options.overwrite = overwrite != 0;
    return dlsm::RestoreBackup(path, db->db.get(), options, nullptr);
  });
}

}  // extern "C"
