# Runs after cpack has made the packages.
# For a shared library cpack writes scripts that call ldconfig. Debian's way is a trigger: dpkg calls it once for all.
# Of leveldb-compat cpack writes that programs with a libleveldb need it. That is wrong: only programs that are told
# where its library lies find it.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  get_filename_component(name ${package} NAME)
  if(NOT name MATCHES "^(libdlsm[^_]*[0-9]|leveldb-compat)_")
    continue()
  endif()
  set(unpacked ${package}.unpacked)
  execute_process(COMMAND dpkg-deb -R ${package} ${unpacked} COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE ${unpacked}/DEBIAN/postinst ${unpacked}/DEBIAN/postrm)
  if(name MATCHES "^leveldb-compat_")
    file(REMOVE ${unpacked}/DEBIAN/shlibs)
  else()
    file(WRITE ${unpacked}/DEBIAN/triggers "activate-noawait ldconfig\n")
    file(CHMOD ${unpacked}/DEBIAN/triggers PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endif()
  execute_process(COMMAND dpkg-deb --root-owner-group -Zxz -b ${unpacked} ${package} OUTPUT_QUIET
                  COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE_RECURSE ${unpacked})
endforeach()
