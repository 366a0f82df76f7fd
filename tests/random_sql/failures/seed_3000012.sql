-- seed 3000012
CREATE TABLE "table:v" ("i0" INTEGER, "-1" INTEGER);
CREATE MATERIALIZED VIEW "日本" AS SELECT 'a' AS "$row" FROM "table:v" AS "w" RIGHT JOIN "table:v" AS "@x" ON ("w"."-1" = "@x".i0 AND "w"."-1" <= "@x"."-1");
