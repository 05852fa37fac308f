#include "db/leveldb/info_log.h"

#include <memory>
#include <string>

namespace dlsm::compat {

InfoLog InfoLog::Open(const leveldb::Options& options, const Place& place) {
  InfoLog log;
  log.logger_ = options.info_log;
  if (log.logger_ != nullptr || !place.InDirectory()) return log;
  leveldb::Env& env = options.env == nullptr ? *leveldb::Env::Default() : *options.env;
  const std::string name = place.path() + kLog;
  // There may be none from before.
  static_cast<void>(env.RenameFile(name, place.path() + kOldLog));
  leveldb::Logger* opened = nullptr;
  if (!env.NewLogger(name, &opened).ok()) return log;
  log.file_.reset(opened);
  log.logger_ = opened;
  return log;
}

}  // namespace dlsm::compat
