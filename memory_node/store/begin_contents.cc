#include "memory_node/store/begin_contents.h"

#include "util/coding.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

Status DrawNumber(uint64_t* number) {
  std::string random;
  DLSM_RETURN_IF_ERROR(RandomBytes(sizeof(uint64_t), &random));
  *number = DecodeFixed64(random.data());
  return Status::OK();
}

}  // namespace

Status BeginContents(const BeginOptions& options, StoredContents* contents, bool* resumed) {
  // Where the kernel tells no number, a power failure cannot be excluded.
  const bool same_machine_boot = !options.made && !options.machine_boot.empty() &&
                                 contents->machine_boot == options.machine_boot;
  *resumed = same_machine_boot && options.clients_outlive &&
             contents->capacity_bytes == options.capacity_bytes;
  uint64_t number = 0;
  if (options.made) {
    DLSM_RETURN_IF_ERROR(DrawNumber(&number));
    contents->contents = ContentsId{number};
  }
  if (!same_machine_boot) DLSM_RETURN_IF_ERROR(DrawNumber(&contents->persistence));
  if (!*resumed) {
    DLSM_RETURN_IF_ERROR(DrawNumber(&number));
    contents->boot = BootId{number};
  }
  contents->machine_boot = options.machine_boot;
  contents->capacity_bytes = options.capacity_bytes;
  return Status::OK();
}

}  // namespace dlsm
