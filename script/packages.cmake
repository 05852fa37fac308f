# Debian packages of a build with DLSM_PACKAGES, by `cpack -G DEB`; script/package makes such a build.
# An install component is a package. script/packages/ has the files that only packages need.
if(NOT DLSM_PACKAGES)
  return()
endif()
if(NOT BUILD_SHARED_LIBS OR NOT DLSM_BENCHMARKS OR NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  message(FATAL_ERROR "DLSM_PACKAGES needs -DBUILD_SHARED_LIBS=ON -DDLSM_BENCHMARKS=ON "
                      "-DCMAKE_INSTALL_PREFIX=/usr, as script/package gives them")
endif()

set(DLSM_PYTHON_ROOT "" CACHE PATH
    "What pip has installed of script/python, for Debian's python3; empty: no such package")
set(DLSM_PACKAGE_REVISION 1 CACHE STRING "Debian's revision, the part of the version after the hyphen")
set(package_files ${CMAKE_CURRENT_SOURCE_DIR}/script/packages)
set(package_build ${CMAKE_CURRENT_BINARY_DIR}/packages)
set(package_version ${PROJECT_VERSION}-${DLSM_PACKAGE_REVISION})

# `Server` is a name for a build folder. In /usr/bin it says whose it is.
set_target_properties(Server PROPERTIES OUTPUT_NAME dlsm-server)
install(TARGETS db_bench COMPONENT tools)

set(CPACK_PACKAGE_NAME dlsm)
set(CPACK_PACKAGE_CONTACT "dLSM maintainers <maintainers@users.noreply.github.com>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${DLSM_PACKAGE_REVISION})
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SOURCE dlsm)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The packages need each other in exactly this version: programs use what is within the library.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_CURRENT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_POST_BUILD_SCRIPTS ${package_files}/finish.cmake)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_COMPONENTS_ALL "")
set(library_package libdlsm${dlsm_soversion})
set(metrics_package libdlsm-metrics${dlsm_soversion})

function(dlsm_compress from to)
  add_custom_command(OUTPUT ${to} COMMAND sh -c "gzip -9nc \"$1\" >\"$2\"" sh ${from} ${to}
                     DEPENDS ${from} VERBATIM)
  set_property(GLOBAL APPEND PROPERTY DLSM_PACKAGE_FILES ${to})
endfunction()

# The day of the version, as the changelog of the tree has it and as Debian writes it.
file(STRINGS doc/changelog.md package_date REGEX "^## ${PROJECT_VERSION} - " LIMIT_COUNT 1)
string(REGEX REPLACE "^.* - " "" package_date "${package_date}")
execute_process(COMMAND date -u -R -d "${package_date}" OUTPUT_VARIABLE package_date
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
configure_file(${package_files}/changelog.in ${package_build}/changelog @ONLY)
dlsm_compress(${package_build}/changelog ${package_build}/changelog.Debian.gz)
dlsm_compress(${CMAKE_CURRENT_SOURCE_DIR}/doc/changelog.md ${package_build}/changelog.gz)

# dlsm_package(COMPONENT NAME SECTION SUMMARY TEXT DEPENDENCY...): describes a package. Dependencies on
# libraries of others are found by dpkg-shlibdeps.
macro(dlsm_package component name section summary text)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${text}")
  string(REPLACE ";" ", " CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${ARGN}")
  install(FILES ${package_build}/changelog.Debian.gz ${package_build}/changelog.gz
                ${package_files}/copyright
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
endmacro()

# dlsm_service(COMPONENT NAME): what the package of a service has besides its program. NAME is that of
# its flags, its data and its unit.
macro(dlsm_service component name)
  string(TOUPPER ${component} upper)
  set(service ${name})
  set(control "")
  foreach(script postinst prerm postrm conffiles)
    set(file ${package_build}/${name}/${script})
    configure_file(${package_files}/service/${script}.in ${file} @ONLY)
    list(APPEND control ${file})
  endforeach()
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${control}")
  install(FILES ${package_files}/${name}.flags DESTINATION /etc/dlsm COMPONENT ${component})
  install(FILES ${package_files}/dlsm-${name}.service DESTINATION lib/systemd/system
          COMPONENT ${component})
endmacro()

# dlsm_man(COMPONENT TARGET PAGE): the manual page of a program, whose flags it is asked for itself.
function(dlsm_man component target page)
  string(REGEX REPLACE ".*\\." "" section ${page})
  set(written ${package_build}/${page})
  add_custom_command(OUTPUT ${written}
                     COMMAND ${package_files}/make_man.py $<TARGET_FILE:${target}>
                             ${package_files}/man/${page}.in ${PROJECT_VERSION} ${written}
                     DEPENDS ${target} ${package_files}/make_man.py ${package_files}/man/${page}.in
                     VERBATIM)
  dlsm_compress(${written} ${written}.gz)
  install(FILES ${written}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component})
endfunction()

# Lines of descriptions are of 80 columns at most.
set(about "dLSM is an ordered key-value store whose tables lie in the memory of memory
nodes. They are reached over RDMA, shared memory or TCP, or are in this
process, with or without a directory on disk.")

dlsm_package(lib ${library_package} libs "ordered key-value store for disaggregated memory: library"
             "${about}\n\nThis is the library that programs need at run time.")
set(CPACK_DEBIAN_LIB_PACKAGE_SUGGESTS "librdmacm1, libibverbs1, ibverbs-providers")
dlsm_package(metrics ${metrics_package} libs "ordered key-value store for disaggregated memory: metrics"
             "${about}\n\nThis library tells Prometheus what the store counts."
             "${library_package} (= ${package_version})")
dlsm_package(dev libdlsm-dev libdevel "ordered key-value store for disaggregated memory: development"
             "${about}\n\nThese are the headers, the static library, a CMake package and a file for
pkg-config. To link the static library, install the suggested packages."
             "${library_package} (= ${package_version})" "${metrics_package} (= ${package_version})")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libspdlog-dev, libssl-dev, libsnappy-dev, libisal-dev, \
libxxhash-dev, libnuma-dev, libsqlite3-dev, prometheus-cpp-dev, pkg-config")
dlsm_package(server dlsm-server database "ordered key-value store for disaggregated memory: memory node"
             "${about}\n\nThe server makes this machine's memory a memory node. It begins as a service
for this machine alone, which keeps its data in /var/lib/dlsm/server."
             "${library_package} (= ${package_version})" "${metrics_package} (= ${package_version})" adduser)
set(CPACK_DEBIAN_SERVER_PACKAGE_SUGGESTS "dlsm-tools, rdma-core, librdmacm1, ibverbs-providers")
dlsm_service(server server)
dlsm_man(server Server dlsm-server.8)
dlsm_package(serve dlsm-serve database "ordered key-value store that speaks Redis' protocol"
             "${about}\n\nThis program stores the data of Redis' clients in dLSM. It begins as a service
for this machine alone, which keeps its data in /var/lib/dlsm/serve."
             "${library_package} (= ${package_version})" "${metrics_package} (= ${package_version})" adduser)
set(CPACK_DEBIAN_SERVE_PACKAGE_SUGGESTS "redis-tools, dlsm-server")
dlsm_service(serve serve)
dlsm_man(serve dlsm_serve dlsm_serve.8)
dlsm_package(tools dlsm-tools database "ordered key-value store for disaggregated memory: tools"
             "${about}\n\nThese programs move, look at and check data (dlsm_tool) and measure it
(db_bench), beside other stores."
             "${library_package} (= ${package_version})" "${metrics_package} (= ${package_version})")
dlsm_man(tools dlsm_tool dlsm_tool.1)
dlsm_man(tools db_bench db_bench.1)

if(DLSM_PYTHON_ROOT)
  dlsm_package(python python3-dlsm python "ordered key-value store for disaggregated memory: Python 3"
               "${about}\n\nThis is the package dlsm for Debian's Python 3. The library is part of it."
               "python3 (>= 3.11)" "python3 (<< 3.12)")
  install(DIRECTORY ${DLSM_PYTHON_ROOT}/ DESTINATION lib/python3/dist-packages COMPONENT python)
  foreach(script postinst prerm)
    configure_file(${package_files}/python/${script} ${package_build}/python/${script} COPYONLY)
    list(APPEND CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${package_build}/python/${script})
  endforeach()
endif()

# A libleveldb whose databases are dLSM's, where this tree has one. It has all of dLSM, so it needs no other package.
if(TARGET leveldb_compat)
  add_custom_command(TARGET leveldb_compat_static POST_BUILD
                     COMMAND ${CMAKE_STRIP} --strip-debug $<TARGET_FILE:leveldb_compat_static>)
  dlsm_package(leveldb-compat leveldb-compat libs "LevelDB's library on an ordered key-value store"
               "${about}\n\nPrograms that use LevelDB's library run on dLSM with this one in its place. It
lies in a folder of its own, so Debian's libleveldb stays as it is.")
endif()

get_property(made GLOBAL PROPERTY DLSM_PACKAGE_FILES)
add_custom_target(dlsm_package_files ALL DEPENDS ${made})
include(CPack)
