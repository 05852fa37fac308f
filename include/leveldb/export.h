// LEVELDB_EXPORT marks what programs may call. The shared library hides everything else.
#pragma once

#if !defined(LEVELDB_EXPORT)
#if defined(__GNUC__)
#define LEVELDB_EXPORT __attribute__((visibility("default")))
#else
#define LEVELDB_EXPORT
#endif
#endif
