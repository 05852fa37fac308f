# find_package(leveldb) where CMAKE_PREFIX_PATH names this library's prefix: leveldb::leveldb.
include("${CMAKE_CURRENT_LIST_DIR}/leveldbTargets.cmake")
