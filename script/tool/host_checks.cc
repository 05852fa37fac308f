#include "script/tool/host_checks.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <fstream>

#include "util/format_bytes.h"

namespace dlsm::tool {
namespace {

// "always [madvise] never" -> "madvise"
std::string Chosen(const std::string& choices) {
  const size_t begin = choices.find('[');
  const size_t end = choices.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return choices;
  return choices.substr(begin + 1, end - begin - 1);
}

}  // namespace

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
  const std::string choice = Chosen(ReadLine(root + "sys/kernel/mm/transparent_hugepage/enabled"));
  if (choice == "always" || choice == "madvise") {
    return {Verdict::kGood, subject, fmt::format("transparent, {}", choice), ""};
  }
  return {Verdict::kNote, subject,
          choice.empty() ? "this kernel has no transparent huge pages" : "transparent: " + choice,
          "lookups in large tables are 20 to 40% slower without: as root, echo madvise > "
          "/sys/kernel/mm/transparent_hugepage/enabled"};
}

Finding CheckSharedMemoryHugePages(const std::string& root) {
  const std::string subject = "huge pages of shm";
  const std::string choice =
      Chosen(ReadLine(root + "sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  if (choice == "always" || choice == "advise" || choice == "within_size" || choice == "force") {
    return {Verdict::kGood, subject, choice, ""};
  }
  return {Verdict::kNote, subject, choice.empty() ? "not offered by this kernel" : choice,
          "for the shm fabric, as root: echo advise > "
          "/sys/kernel/mm/transparent_hugepage/shmem_enabled"};
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
