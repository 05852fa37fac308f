#include "script/tool/host_checks.h"

#include <fmt/core.h>
#include <sys/statvfs.h>

#include <fstream>

#include "util/format_bytes.h"
#include "util/memory/huge_pages.h"

namespace dlsm::tool {

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Finding CheckLockedMemory(const rlimit& limit) {
  const std::string subject = "locked memory";
  if (limit.rlim_cur == RLIM_INFINITY) return {Verdict::kGood, subject, "unlimited", ""};
  return {
      Verdict::kNote, subject,
      fmt::format("at most {} (RLIMIT_MEMLOCK), so no more can be registered for RDMA",
                  FormatBytes(limit.rlim_cur)),
      "for verbs: '* - memlock unlimited' in /etc/security/limits.conf, or LimitMEMLOCK=infinity "
      "in the unit file; shm and tcp need nothing"};
}

Finding CheckHugePages(const std::string& root) {
  const std::string subject = "huge pages";
  const HugePages found = AnonymousHugePages(root);
  if (found.offered) return {Verdict::kGood, subject, found.detail, ""};
  return {Verdict::kNote, subject, found.detail,
          "lookups in large tables are 20 to 40% slower without: " + found.remedy};
}

Finding CheckSharedMemoryHugePages(const std::string& root) {
  const std::string subject = "huge pages of shm";
  const HugePages found = ShmHugePages(root);
  if (found.offered) return {Verdict::kGood, subject, found.detail, ""};
  return {Verdict::kNote, subject, found.detail,
          "from Linux 6.1 on a Server that takes its memory at its start makes them itself and "
          "says so; else lookups over the shm fabric are slower without: " +
              found.remedy};
}

Finding CheckSharedMemorySpace(const std::string& shm_folder) {
  const std::string subject = "space in " + shm_folder;
  struct statvfs space {};
  if (statvfs(shm_folder.c_str(), &space) != 0) {
    return {Verdict::kNote, subject, "is not there",
            "the shm fabric needs it: mount -t tmpfs tmpfs " + shm_folder};
  }
  const uint64_t free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
  constexpr uint64_t kLittle = uint64_t{64} << 20;  // What container run times give by default.
  const std::string detail = fmt::format("{} of {} free", FormatBytes(free_bytes),
                                         FormatBytes(uint64_t{space.f_blocks} * space.f_frsize));
  if (free_bytes > kLittle) return {Verdict::kGood, subject, detail, ""};
  return {Verdict::kNote, subject, detail,
          "a Server on the shm fabric holds its memory there: raise its limit (mount -o "
          "remount,size=..., or --shm-size of the container)"};
}

}  // namespace dlsm::tool
