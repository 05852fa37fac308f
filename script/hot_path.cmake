# What puts, gets, scans, flushes and merges run through for every key, compiled as one file: small
# functions of one file call those of another, and a compiler inlines only what it sees. Most calls
# here are worth it, so the file may grow by more than compilers let one (doc/performance.md, "One
# file for the hot path").
#
# With a sanitizer, and for clang-tidy, files stay on their own: so none leans on what another
# includes.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT DLSM_SANITIZE)
  set(as_one_by_default ON)
else()
  set(as_one_by_default OFF)
endif()
option(DLSM_HOT_PATH_AS_ONE "Compile what every key runs through as one file" ${as_one_by_default})

set(hot_path "")
if(DLSM_HOT_PATH_AS_ONE)
  set(hot_path
      db/handle/db_impl.cc db/handle/db_impl_reads.cc db/handle/writer.cc
      db/read/db_iterator.cc db/read/iterator_bounds.cc
      db/background/flush_job.cc db/read/get_pipeline_impl.cc db/tree/level.cc
      db/tree/level_iterator.cc db/memtable/memtable.cc
      db/memtable/memtable_cursor.cc db/memtable/memtable_epochs.cc db/memtable/memtable_tree.cc
      db/read/multi_get.cc db/read/point_reader.cc db/read/reads.cc db/memtable/sequencer.cc
      db/read/shard_iterator.cc db/read/table_lookup.cc db/tree/version.cc
      table/byte_table_builder.cc table/byte_table_index.cc table/byte_table_index_builder.cc
      table/byte_table_iterator.cc table/byte_table_reader.cc table/merge_input.cc
      table/merge_tables.cc table/merge_writer.cc table/merging_iterator.cc
      table/node_queue_pairs.cc table/read_ahead.cc table/record.cc table/run_iterator.cc
      table/table_run.cc table/table_summary.cc table/thread_queue_pairs.cc util/bloom_filter.cc
      util/checksum.cc util/fabric/mapped/mapped_fabric.cc util/fabric/queue_pair_ledger.cc
      util/iterator.cc util/pinnable_slice.cc util/statistics.cc util/status.cc
      util/thread_number.cc)
  list(TRANSFORM hot_path PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  add_library(dlsm_hot_path OBJECT ${hot_path})
  target_link_libraries(dlsm_hot_path PRIVATE dlsm_settings)
  set_target_properties(dlsm_hot_path PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(dlsm_hot_path PRIVATE
                           --param=max-inline-insns-auto=200 --param=inline-unit-growth=400
                           --param=large-function-growth=1000 --param=large-stack-frame-growth=2000)
  endif()
  set_property(GLOBAL APPEND PROPERTY DLSM_FLOORS dlsm_hot_path)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 takes an iterator over iterators for one over its own kind, and unrolls that eight times.
  set_source_files_properties(db/tree/level_iterator.cc table/run_iterator.cc
                              PROPERTIES COMPILE_OPTIONS -fno-devirtualize-speculatively
                                         SKIP_PRECOMPILE_HEADERS ON)
endif()
